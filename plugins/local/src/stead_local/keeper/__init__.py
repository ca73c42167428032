"""The keeper: a small process that runs one command at a time and ends everything that it started.

Standard library only, and nothing else of stead: it runs as `python -I -S`, so that it starts fast and stays small.

    __main__   how it is started
    parent     the first keeper of an environment: forks the others, catches what a killed one leaves behind
    worker     commands of one connection, each from its request to its reply
    tree       reaching and ending every descendant
    spawn      starting the command
    streams    its standard streams: feeding stdin; head, tail and spill file of its output
    channel    frames over the socket to the environment
    request    what is in the frames
    messages   their fields
    lean       modules without their slow wrappers

What is imported here is paid for twice: at the first command, and in memory that each forked keeper copies as it goes. So
no `typing`, `collections`, `functools`, `contextlib`, `json` or `re` at the top of these modules: annotations are text.
"""
