"""Jobs from end to end, each with a folder that it can be resumed from: find, compare, certify, study."""
