"""The long memory: diaries that people and models write, and recall of what is in them.

Lower packages never import higher ones:
recall > enhance > ranking > vectors > index > embedders | time_words | diaries.
"""
