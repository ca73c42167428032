# Says early what would be wrong with a write, before its content is sent.
target
answer ok "$place"
