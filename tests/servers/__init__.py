"""Real servers for the tests of object stores, on free ports of this machine, and a proxy that breaks connections."""
