/* A server that sends back what clients send, and a client.
 *
 *     cc -o echo echo.c $(pkg-config --cflags --libs headend-socket)
 *     ./echo serve 127.0.0.1:4433 server.key CLIENTS-PUBLIC-KEY
 *     ./echo ask 127.0.0.1:4433 client.key SERVERS-PUBLIC-KEY <question >answer
 */
#include <headend_socket.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, headend_error());
    exit(1);
}

static void *echo(void *of) {
    headend_stream *stream = of;
    uint8_t buffer[65536];
    ptrdiff_t len;
    while ((len = headend_read(stream, buffer, sizeof buffer, -1)) > 0)
        if (headend_write(stream, buffer, len, -1) < 0)
            break;
    if (len == 0) {
        headend_shutdown(stream);      /* ends this half of the stream */
        headend_wait_sent(stream, -1); /* all of it has come: a stream that is freed before is reset */
    }
    headend_stream_free(stream);
    return NULL;
}

static void start(void *(*body)(void *), void *of) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, of) != 0)
        abort();
    pthread_detach(thread);
}

static void *serve(void *of) {
    headend_connection *connection = of;
    headend_stream *stream;
    while ((stream = headend_accept_stream(connection, -1)) != NULL)
        start(echo, stream);
    headend_connection_close(connection, 0, NULL);
    return NULL;
}

/* Writes what standard input has. */
static void *question(void *stream) {
    uint8_t buffer[65536];
    size_t len;
    while ((len = fread(buffer, 1, sizeof buffer, stdin)) > 0)
        if (headend_write(stream, buffer, len, -1) < 0)
            fail("write");
    headend_shutdown(stream);
    return NULL;
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "echo serve ADDRESS KEY CLIENT, or echo ask ADDRESS KEY SERVER\n");
        return 2;
    }
    headend_key *key = headend_key_load(words[3]);
    if (key == NULL)
        fail("key");
    if (strcmp(words[1], "serve") == 0) {
        const char *clients[] = {words[4]};
        headend_endpoint *server = headend_listen(words[2], key, clients, 1);
        if (server == NULL)
            fail("listen");
        printf("port %d\n", headend_port(server));
        fflush(stdout);
        headend_connection *connection;
        while ((connection = headend_accept(server, -1)) != NULL)
            start(serve, connection);
        fail("accept");
    }
    headend_endpoint *client = headend_client(key);
    headend_connection *connection = client ? headend_connect(client, words[2], words[4], -1) : NULL;
    headend_stream *stream = connection ? headend_open(connection, -1) : NULL;
    if (stream == NULL)
        fail("connect");
    pthread_t writer; /* at the same time: a server that answers before it has read all must not wait for ever */
    if (pthread_create(&writer, NULL, question, stream) != 0)
        abort();
    uint8_t buffer[65536];
    ptrdiff_t len;
    while ((len = headend_read(stream, buffer, sizeof buffer, -1)) > 0)
        fwrite(buffer, 1, len, stdout);
    if (len < 0)
        fail("read");
    pthread_join(writer, NULL);
    headend_stream_free(stream);
    headend_connection_close(connection, 0, "done");
    headend_endpoint_close(client);
    headend_key_free(key);
    return 0;
}
