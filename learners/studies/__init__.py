"""Studies: the experiments of published papers, and one of our own, from training to page.

A study plays its arms on its cases and leaves one long table; its page is Markdown written by hand
in ``pages/``, with holes for numbers, tables and claims that follow from that table.
"""
