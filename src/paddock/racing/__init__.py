"""The racing domain, one vertical slice: environment, laps, races, driving by hand, what a viewer sees."""
