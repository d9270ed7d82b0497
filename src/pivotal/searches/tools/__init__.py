"""Steps that several searches share: fitting values, scoring sets, swapping and removing units, constraints."""
