"""The message formats that the reducer works on."""
