# What is to be removed has been by now.
answer ok ""
