"""NodeResourcesFit and NodeResourcesBalancedAllocation: requests against allocatable."""
