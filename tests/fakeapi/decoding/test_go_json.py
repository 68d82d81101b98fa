"""Why a text is no JSON, in the words of Go's decoder.

Checked against Go's encoding/json with thousands of damaged texts when it was written; these are
one for each sentence.
"""

from __future__ import annotations

import pytest

from fakeapi.decoding.go_json import syntax_error

NESTED = b"[" * 10_001


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b'"abc', "unexpected end of JSON input"),
        (b"\xc7", "invalid character 'Ç' looking for beginning of value"),
        (b"'", "invalid character '\\'' looking for beginning of value"),
        (b"\\", "invalid character '\\\\' looking for beginning of value"),
        (b"\x00", "invalid character '\\x00' looking for beginning of value"),
        (b"\xa0", "invalid character '\\u00a0' looking for beginning of value"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"{bad", "invalid character 'b' looking for beginning of object key string"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b"01", "invalid character '1' after top-level value"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.", "invalid character ' ' after decimal point in numeric literal"),
        (b"1e+", "invalid character ' ' in exponent of numeric literal"),
        (b"nul1", "invalid character '1' in literal null (expecting 'l')"),
        (b'"\n"', "invalid character '\\n' in string literal"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b'"\\u12g"', "invalid character 'g' in \\u hexadecimal character escape"),
        (NESTED, "invalid character '[' exceeded max depth"),
        (b' {"a":[1,-2.5e-3,"\\u00e9",true,false,null,{}],"b":[]} ', ""),
    ],
)
def test_what_go_says(text: bytes, said: str) -> None:
    assert syntax_error(text) == said
