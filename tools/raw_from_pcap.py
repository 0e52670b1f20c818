# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert a capture of tcpdump (pcap, IPv4) to a raw recording for ``report`` and ``replay``.

  raw_from_pcap.py CAPTURE.pcap RECORDING.mcap

The capture must begin before the client connects, and hold both TCP and UDP (tcpdump -s 0).
"""

from pathlib import Path
import sys

ROOT = Path(__file__).resolve().parent.parent


def main():
    sys.path[:0] = [str(ROOT), str(ROOT / 'test')]
    from raw_kit import convert, tap
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    writer, sink = tap(sys.argv[2])
    convert(sys.argv[1], sink.tap)
    writer.close()
    print(f'{sys.argv[2]}: {writer.messages} messages')


if __name__ == '__main__':
    main()
