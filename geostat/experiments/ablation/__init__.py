"""What heads are good for: losses where single heads, budgets and regimes are cut, and what tells
them.
"""
