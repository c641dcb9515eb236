"""The functions behind the commands, one file each: a function, its result, its table and its JSON."""
