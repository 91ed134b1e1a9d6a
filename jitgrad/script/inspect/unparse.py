"""Python source from an AST.

`astunparse` writes the text where a re-parse gives the same tree; elsewhere (it is wrong for `a[1:2, ..., ::3]` and
for `match`, for example) `ast.unparse` does. astunparse is imported on first use.
"""

import ast


def unparse(tree: ast.AST) -> str:
    """Source text whose tree is `tree` (positions aside)."""
    text = _astunparse(tree)
    if text is not None and _same(tree, text):
        return text
    return ast.unparse(tree)


def _astunparse(tree: ast.AST) -> str | None:
    """astunparse's text; None where it cannot write this tree."""
    import astunparse

    try:
        text: str = astunparse.unparse(tree)
    except (AttributeError, TypeError, ValueError):  # a node type or field that it does not know
        return None
    return text.strip("\n")


def _same(tree: ast.AST, text: str) -> bool:
    try:
        again = ast.parse(text)
    except SyntaxError:
        return False
    if not isinstance(tree, ast.Module):
        if len(again.body) != 1:
            return False
        only = again.body[0]
        return ast.dump(only.value if isinstance(tree, ast.expr) and isinstance(only, ast.Expr) else only) == ast.dump(
            tree)
    return ast.dump(again) == ast.dump(tree)
