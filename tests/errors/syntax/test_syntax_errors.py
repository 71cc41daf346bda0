"""Golden messages: every kind of syntax error, as it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from zql.errors import ErrorList, ParseError
from zql.source import Source
from zql.syntax.parser import parse_script

from golden import parameters

HERE = Path(__file__).parent


@pytest.mark.parametrize("case", parameters(HERE))
def test_message(case):
    with pytest.raises((ParseError, ErrorList)) as caught:
        parse_script(Source("script.zql", case.script))
    case.check(str(caught.value))


def test_every_code_that_the_parser_documents_is_shown_somewhere():
    from zql.syntax import mistakes

    texts = "".join(path.read_text() for path in HERE.glob("*.test"))
    documented = {word for word in mistakes.__doc__.replace(",", " ").split() if word[:2] == "S1"}
    assert {code for code in documented if f"ZQL-{code}" not in texts} == {
        "S110"
    }  # see depth tests
