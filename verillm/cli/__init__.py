"""The command ``verillm``."""
