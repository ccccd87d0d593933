"""One module a verb: what a user asks for, turned into a plan for the commit driver."""
