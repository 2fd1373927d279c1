"""Writes TFRecords of tf.train.Example, as the public CosmoFlow data are."""

import gzip
import pathlib
import struct


def make_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = make_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, data):
    """A field of a message that has a length."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(x, y):
    """An Example with the bytes x and the floats y."""
    features = {b"x": field(1, field(1, x)), b"y": field(2, field(1, struct.pack(f"<{len(y)}f", *y)))}
    return field(1, b"".join(field(1, field(1, name) + field(2, feature)) for name, feature in features.items()))


def write(path, records, compress=False):
    text = bytearray()
    for record in records:
        length = struct.pack("<Q", len(record))
        text += length + struct.pack("<I", masked_crc32c(length)) + record + struct.pack("<I", masked_crc32c(record))
    pathlib.Path(path).write_bytes(gzip.compress(bytes(text), 1) if compress else bytes(text))
