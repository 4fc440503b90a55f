"""Makes models.py of attention.proto: a plain class for each message that comes back as it is."""

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
HEADER = '''"""Answers of the server, as plain classes. Fields are those of attention.proto, where they are explained; a value of an
enum is its name. Made of attention.proto by make_models.py."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Type
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
        fields = "".join(f"    {field.name}: {_type_of(field, file.package)}\n" for field in message.field)
        source += f'\n\n@dataclasses.dataclass(frozen=True)\nclass {class_name}:\n    """{name} of attention.proto."""\n\n{fields}'
    mirrors = "".join(f'    "{name}": {class_name},\n' for name, class_name in CLASSES.items())
    return source + f"\n\n# By the message's name.\nMIRRORS: Dict[str, Type[Any]] = {{\n{mirrors}}}\n"


def _type_of(field: Field, package: str) -> str:
    if field.type == Field.TYPE_MESSAGE:
        kind = CLASSES[field.type_name[len(package) + 2 :]]
    else:
        kind = SCALARS.get(field.type, "int")
    if field.label == Field.LABEL_REPEATED:
        return f"List[{kind}]"
    return f"Optional[{kind}]" if field.proto3_optional else kind
