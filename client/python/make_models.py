"""Makes models.py of attention.proto: a plain class for each message that comes back as it is, and the keywords of messages that
are part of a request."""

from google.protobuf import descriptor_pb2

# By the message's name; what refers to another class comes after it.
CLASSES = {
    "Summary": "Summary",
    "TokenizedText": "TokenizedText",
    "SessionUsage": "SessionUsage",
    "TopLogits": "TopLogits",
    "ModelLimits": "ModelLimits",
    "Layer": "Layer",
    "Model": "Model",
    "ModelState": "ModelState",
    "VerifyModelResponse.Difference": "Difference",
    "VerifyModelResponse": "Verification",
    "LatencyHistogram": "LatencyHistogram",
    "ModelStatistics": "ModelStatistics",
    "ServerStatistics": "ServerStatistics",
    "Logging": "Logging",
}
KEYWORDS = {
    "Rotary": "RotaryKeywords",
    "RmsNorm": "RmsNormKeywords",
    "SequenceOptions": "SequenceKeywords",
    "AttentionOptions": "OptionKeywords",
    "WeightsChoice": "WeightsChoiceKeywords",
    "AttentionHeads": "HeadsKeywords",
}
HEADER = '''"""Answers of the server as plain classes, and parts of requests as keywords. Fields are those of attention.proto, where they
are explained; a value of an enum is its name. Made of attention.proto by make_models.py."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Type, TypedDict, Union

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike
'''

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    Field.TYPE_BOOL: "bool",
    Field.TYPE_BYTES: "bytes",
    Field.TYPE_DOUBLE: "float",
    Field.TYPE_ENUM: "str",
    Field.TYPE_FLOAT: "float",
    Field.TYPE_STRING: "str",
}


def models_source(descriptor_set: bytes) -> str:
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file
    messages = {message.name: message for message in file.message_type}
    source = HEADER
    for name, class_name in CLASSES.items():
        outer, _, inner = name.partition(".")
        message = messages[outer]
        if inner:
            message = next(nested for nested in message.nested_type if nested.name == inner)
        fields = "".join(f"    {field.name}: {_answer_type(field, file.package)}\n" for field in message.field)
        source += f'\n\n@dataclasses.dataclass(frozen=True)\nclass {class_name}:\n    """{name} of attention.proto."""\n\n{fields}'
    for name, class_name in KEYWORDS.items():
        fields = "".join(f"    {field.name}: {_keyword_type(field, file.package)}\n" for field in messages[name].field)
        source += f'\n\nclass {class_name}(TypedDict, total=False):\n    """{name} of attention.proto."""\n\n{fields}'
    mirrors = "".join(f'    "{name}": {class_name},\n' for name, class_name in CLASSES.items())
    return source + f"\n\n# By the message's name.\nMIRRORS: Dict[str, Type[Any]] = {{\n{mirrors}}}\n"


def _kind_of(field: Field, package: str) -> str:
    """The class of one value; a tensor is an array."""
    if field.type == Field.TYPE_MESSAGE:
        name = field.type_name[len(package) + 2 :]
        return CLASSES.get(name) or KEYWORDS.get(name) or "ArrayLike"
    return SCALARS.get(field.type, "int")


def _answer_type(field: Field, package: str) -> str:
    kind = _kind_of(field, package)
    if field.label == Field.LABEL_REPEATED:
        return f"List[{kind}]"
    return f"Optional[{kind}]" if field.proto3_optional else kind


def _keyword_type(field: Field, package: str) -> str:
    kind = _kind_of(field, package)
    if field.label == Field.LABEL_REPEATED:
        return f"Union[Sequence[{kind}], np.ndarray[Any, Any]]" if kind in ("int", "float") else f"Sequence[{kind}]"
    return kind
