"""Tables of text, whatever wrote them: the keys, layouts, times and numbers of every reader.

Job tables, task tables and series of power, prices and carbon read the same kind of file: a line
of column names, then rows, in one of the many dialects of CSV. What the file does not make clear
is asked for in words, under the same keys everywhere (`TableKeys`).
"""
