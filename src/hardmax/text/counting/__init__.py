"""From texts to counted n-grams: tokens, numbers for them, the vectorizer."""
