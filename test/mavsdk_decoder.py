# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Decode MAVLink with mavsdk and print each message as a line of JSON.

It runs in its own process, since mavsdk has its own threads. The first line is 'ready'.
"""

import json
import sys
import threading
import time

from mavsdk import Configuration, Mavsdk
from mavsdk.plugins.mavlink_direct import MavlinkDirect

NAMES = ('ODOMETRY', 'VISION_POSITION_ESTIMATE', 'VISION_SPEED_ESTIMATE', 'ATT_POS_MOCAP')


def main():
    """Listen to the port that the first argument names, until killed."""
    mavsdk = Mavsdk(Configuration.create_manual(245, 190, False))
    mavsdk.add_any_connection(f'udpin://127.0.0.1:{sys.argv[1]}')
    while not mavsdk.get_systems():
        time.sleep(0.01)
    direct = MavlinkDirect(mavsdk.get_systems()[0])
    lock = threading.Lock()

    def show(message, *_):
        """Print one message."""
        with lock:
            print(json.dumps([message.message_name, json.loads(message.fields_json),
                              [message.system_id, message.component_id]]), flush=True)

    for name in NAMES:
        direct.subscribe_message(name, show)
    print('ready', flush=True)
    while True:
        time.sleep(60)


if __name__ == '__main__':
    main()
