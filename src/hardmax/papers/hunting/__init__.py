"""Search for counterexamples: draw, improve, shrink, prove. The verb is `hardmax.hunt`."""
