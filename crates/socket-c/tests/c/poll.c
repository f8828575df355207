/* Both ends in one process and without threads of its own: streams with a timeout of 0, and poll(2) on their descriptors. */
#include <headend_socket.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 1000000, MINUTE = 60000 };
static uint8_t out[2][SIZE], in[2][SIZE];

static void must(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s: %s\n", what, headend_error());
        exit(1);
    }
}

int main(void) {
    headend_key *keys[2] = {headend_key_generate(), headend_key_generate()};
    char public[2][HEADEND_PUBLIC_KEY_SIZE], seen[HEADEND_PUBLIC_KEY_SIZE], address[32];
    for (int end = 0; end < 2; end++)
        headend_key_public(keys[end], public[end]);
    const char *clients[] = {public[1]};
    headend_endpoint *server = headend_listen("127.0.0.1:0", keys[0], clients, 1), *client = headend_client(keys[1]);
    must(server && client, "open");
    must(headend_accept(server, 0) == NULL, "nobody is there yet");
    snprintf(address, sizeof address, "localhost:%d", headend_port(server));
    must(headend_connect(client, address, "nonsense", -1) == NULL, "no key");
    must(strstr(headend_error(), "44 letters") != NULL, "an error says what would be right");
    snprintf(address, sizeof address, "127.0.0.1:%d", headend_port(server));
    headend_connection *asked = headend_connect(client, address, public[0], MINUTE);
    must(asked != NULL, "connect");
    headend_stream *streams[2] = {headend_open(asked, MINUTE), NULL};
    must(streams[0] && headend_write(streams[0], (const uint8_t *)"!", 1, MINUTE) == 1, "open");
    headend_connection *accepted = headend_accept(server, MINUTE);
    must(accepted && headend_connection_peer(accepted, seen) == 0 && strcmp(seen, public[1]) == 0, "accept");
    streams[1] = headend_accept_stream(accepted, MINUTE);
    must(streams[1] && headend_read(streams[1], in[1], 1, MINUTE) == 1 && in[1][0] == '!', "accept a stream");

    /* A megabyte each way at once. */
    struct pollfd bells[4];
    size_t written[2] = {0}, read[2] = {0};
    int ended[2] = {0};
    for (int end = 0; end < 2; end++) {
        for (size_t at = 0; at < SIZE; at++)
            out[end][at] = at * 31 + (at >> 9) + end;
        bells[2 * end] = (struct pollfd){headend_stream_fd(streams[end], HEADEND_READ), POLLIN, 0};
        bells[2 * end + 1] = (struct pollfd){headend_stream_fd(streams[end], HEADEND_WRITE), POLLIN, 0};
    }
    while (!ended[0] || !ended[1]) {
        int moved = 0;
        for (int end = 0; end < 2; end++) {
            if (written[end] < SIZE) {
                ptrdiff_t len = headend_write(streams[end], out[end] + written[end], SIZE - written[end], 0);
                must(len > 0 || len == HEADEND_TIMED_OUT, "write");
                written[end] += len > 0 ? len : 0;
                moved |= len > 0;
                if (written[end] == SIZE)
                    headend_shutdown(streams[end]);
            }
            if (!ended[end]) {
                /* One byte more than there is, to see the end. */
                uint8_t byte;
                size_t room = SIZE - read[end];
                ptrdiff_t len = headend_read(streams[end], room ? in[end] + read[end] : &byte, room ? room : 1, 0);
                must(len >= 0 || len == HEADEND_TIMED_OUT, "read");
                ended[end] = len == 0;
                read[end] += len > 0 ? len : 0;
                moved |= len >= 0;
            }
        }
        must(moved || poll(bells, 4, MINUTE) > 0, "a minute without a word");
    }
    must(read[0] == SIZE && read[1] == SIZE && written[0] == SIZE && written[1] == SIZE, "count");
    must(memcmp(in[0], out[1], SIZE) == 0 && memcmp(in[1], out[0], SIZE) == 0, "bytes");
    must(headend_wait_sent(streams[0], MINUTE) == 0, "sent");
    headend_snapshot at;
    must(headend_connection_snapshot(asked, &at) == 0 && at.sent > 0 && at.rtt_ns > 0, "snapshot");

    /* A reset has its code, and the end of a connection its words. */
    headend_stream *broken = headend_open(asked, MINUTE);
    must(broken && headend_write(broken, (const uint8_t *)"?", 1, MINUTE) == 1, "write to another");
    headend_stream *other = headend_accept_stream(accepted, MINUTE);
    must(other && headend_read(other, in[1], 1, MINUTE) == 1, "read from another");
    headend_reset(broken, 7);
    must(headend_read(other, in[1], 1, MINUTE) == HEADEND_RESET && headend_error_code() == 7, "reset");
    /* The largest code that there is stands for those above it. */
    headend_reset(other, UINT64_MAX);
    must(headend_read(broken, in[0], 1, MINUTE) == HEADEND_RESET, "reset with too large a code");
    must(headend_error_code() == (UINT64_C(1) << 62) - 1, "the largest code");

    /* What is NULL is wrong, and nothing worse. */
    must(headend_read(NULL, in[0], 1, 0) == HEADEND_WRONG && headend_write(NULL, out[0], 1, 0) == HEADEND_WRONG, "NULL");
    must(strcmp(headend_error(), "stream is NULL") == 0, "NULL has a name");
    must(headend_wait_sent(NULL, 0) == HEADEND_WRONG && headend_stream_fd(NULL, HEADEND_READ) == HEADEND_WRONG, "NULL");
    must(headend_connection_peer(NULL, seen) == HEADEND_WRONG, "NULL");
    must(headend_connection_snapshot(NULL, &at) == HEADEND_WRONG && headend_port(NULL) == 0, "NULL");
    must(headend_accept(NULL, 0) == NULL && headend_connect(NULL, address, public[0], 0) == NULL, "NULL");
    must(headend_open(NULL, 0) == NULL && headend_accept_stream(NULL, 0) == NULL && headend_client(NULL) == NULL, "NULL");
    must(headend_listen("127.0.0.1:0", keys[0], NULL, 1) == NULL, "NULL");
    headend_shutdown(NULL);
    headend_reset(NULL, 0);
    headend_stop(NULL, 0);
    headend_stream_free(broken);
    headend_connection_close(asked, 80, "enough");
    must(headend_accept_stream(accepted, MINUTE) == NULL && headend_error_code() == 80, "close");
    must(strstr(headend_error(), "enough") != NULL, "words");
    headend_stream_free(streams[0]);
    headend_stream_free(streams[1]);
    headend_stream_free(other);
    headend_connection_close(accepted, 0, NULL);
    headend_endpoint_close(server);
    headend_endpoint_close(client);
    for (int end = 0; end < 2; end++)
        headend_key_free(keys[end]);
    puts("good");
    return 0;
}
