"""The keeper: a small process that runs one command at a time and ends everything that it started.

Standard library only, and nothing else of stead: it runs as `python -I -S`, so that it starts fast and stays small.

    __main__   how it is started
    parent     the first keeper of an environment: forks the others, catches what a killed one leaves behind
    worker     one command from its request to its reply
    tree       reaching and ending every descendant
    spawn      starting the command
    streams    its output: head, tail, spill file
    channel    frames over the socket to the environment
"""
