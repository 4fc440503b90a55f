"""No field, value or call of a released protocol changes its number, type or name, or is removed: tests/data/api has a line
for each, in a file for each release.

api_test.py PROTOC [--write VERSION]: --write makes the file of a release, before it is published.
"""

import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
RELEASES = REPOSITORY / "tests/data/api"
PROTOS = ("attention/v1/attention.proto", "inference/open_inference.proto", "grpc/health/v1/health.proto")
Field = descriptor_pb2.FieldDescriptorProto


def compiled(protoc):
    """The descriptors of PROTOS."""
    with tempfile.NamedTemporaryFile() as output:
        command = [protoc, f"--proto_path={REPOSITORY / 'proto'}", f"--descriptor_set_out={output.name}", *PROTOS]
        subprocess.run(command, check=True, timeout=300)
        return descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(output.name).read_bytes()).file


def field_line(message, path, field):
    """With the oneof, whose members exclude each other."""
    type_name = field.type_name.lstrip(".") or Field.Type.Name(field.type)[len("TYPE_"):].lower()
    label = "repeated " if field.label == Field.LABEL_REPEATED else ""
    if field.proto3_optional:
        label = "optional "
    elif field.HasField("oneof_index"):
        label = f"oneof {message.oneof_decl[field.oneof_index].name} "
    return f"{path}.{field.name} = {field.number} {label}{type_name}"


def message_lines(message, scope):
    path = f"{scope}.{message.name}"
    yield f"message {path}"
    for field in message.field:
        yield field_line(message, path, field)
    for nested in message.nested_type:
        yield from message_lines(nested, path)
    for enum in message.enum_type:
        yield from enum_lines(enum, path)


def enum_lines(enum, scope):
    for value in enum.value:
        yield f"{scope}.{enum.name}.{value.name} = {value.number}"


def lines(files):
    """What a client of these files relies on, a line each."""
    for file in files:
        for message in file.message_type:
            yield from message_lines(message, file.package)
        for enum in file.enum_type:
            yield from enum_lines(enum, file.package)
        for service in file.service:
            for call in service.method:
                asked = ("stream " if call.client_streaming else "") + call.input_type.lstrip(".")
                answered = ("stream " if call.server_streaming else "") + call.output_type.lstrip(".")
                yield f"rpc {file.package}.{service.name}.{call.name} ({asked}) returns ({answered})"


def broken(release, now):
    """The lines of a release that do not hold any more."""
    return [line for line in release if line not in now]


def main():
    protoc, *write = sys.argv[1:]
    files = compiled(protoc)
    now = set(lines(files))
    if write:
        (RELEASES / f"{write[1]}.txt").write_text("".join(f"{line}\n" for line in lines(files)))
        return
    releases = sorted(RELEASES.glob("*.txt"))
    assert releases, f"{RELEASES} has no release"
    for path in releases:
        release = path.read_text().splitlines()
        assert len(release) > 100, f"{path} has {len(release)} lines"
        wrong = broken(release, now)
        assert not wrong, f"{path.stem} promised, and it does not hold any more:\n" + "\n".join(wrong)

    changed = descriptor_pb2.FileDescriptorProto()
    changed.CopyFrom(files[0])
    first = changed.message_type[0].field[0]
    first.number += 1000
    changed.message_type[1].field[0].type = Field.TYPE_SFIXED64
    changed.message_type[1].field[0].type_name = ""
    del changed.service[0].method[0]
    assert len(broken(sorted(now), set(lines([changed, *files[1:]])))) == 3, "a change was not seen"
    print(f"{len(now)} lines, {len(releases)} releases")


if __name__ == "__main__":
    main()
