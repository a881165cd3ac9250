"""What the fields of a record mean, in the words of the docstrings under them.

They are read from the source when somebody asks: pydantic would read it whenever a record is defined.
"""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


def field_docs(record: type[BaseModel]) -> dict[str, str]:
    """A sentence a field, of the record and of those it inherits from; of a `kind` the beginning of the record's own docstring.

    What a plugin's record says in `Field(description=...)` counts as well. A field without either is left out.
    """
    docs: dict[str, str] = {}
    for owner in reversed(record.__mro__):
        if issubclass(owner, BaseModel) and owner is not BaseModel:
            docs |= _docs_in(owner)
    docs |= {name: field.description for name, field in record.model_fields.items() if field.description}
    if "kind" in record.model_fields and "kind" not in docs and (own := inspect.getdoc(record)):
        docs["kind"] = own.partition("\n\n")[0].replace("\n", " ")
    return {name: text for name, text in docs.items() if name in record.model_fields}


@cache
def _docs_in(owner: type[BaseModel]) -> dict[str, str]:
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    except (OSError, SyntaxError, TypeError):
        return {}  # made without a file
    statements = node.body if isinstance(node, ast.ClassDef) else []
    docs = {}
    for field, beneath in pairwise(statements):
        match field, beneath:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = " ".join(inspect.cleandoc(text).split())
    return docs
