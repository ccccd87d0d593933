"""The main job on real input: 336,776 flights through a table and back, with every result
checked.
"""
