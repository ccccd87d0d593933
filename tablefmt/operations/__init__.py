"""Operations of the API, one module each: a user's request becomes a plan for the commit driver."""
