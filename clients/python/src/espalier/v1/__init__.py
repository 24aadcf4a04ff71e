"""The messages of the protocol, as `clients/python/generate` makes them of `proto/espalier/v1`."""
