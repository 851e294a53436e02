"""Many clients fill what one pass reads of each."""

import attack as a

LARGE, SMALL = 1_000, 50
BYTES = 4 * 64 * 1024


def run(attack):
    clients = [attack.client() for _ in range(attack.size)]
    pairs = [(client, b'{"request":"put","queue":"q%d","job":{},"pri":1}\n' % index)
             for index, client in enumerate(clients)]
    attack.begin()
    with attack.frozen():
        for client, line in pairs:
            client.socket.setsockopt(a.socket.SOL_SOCKET, a.socket.SO_SNDBUF, 2 * BYTES)
            client.socket.setblocking(False)
            client.sent = client.socket.send(line * (BYTES // len(line)))
            client.socket.settimeout(a.PATIENCE)
    for client, line in pairs:
        whole = line * (BYTES // len(line))
        answers = client.pipeline([whole[client.sent:]], BYTES // len(line))
        assert len(a.ids(answers)) == BYTES // len(line)
        client.close()
