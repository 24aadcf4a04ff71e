"""What the tests ask."""

from espalier import Message

QUESTION: list[Message] = [{"role": "user", "content": "Ann has 3 dogs and 2 cats. How many pets has she?"}]
TEXT = "Ann has 3 dogs and 2 cats. She"
