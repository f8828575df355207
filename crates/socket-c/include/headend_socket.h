/* Sockets whose congestion control does not take damage for congestion: docs/reference/sockets.md.
 * Written by HEADEND_BLESS=1 cargo test -p headend-socket-c.
 *
 * Pointers to headend_* objects are those that these functions gave, and that are not freed yet. Texts are UTF-8 and
 * end with a zero byte. A timeout of -1 waits for ever, and 0 not at all. Any thread may call, but at a time only one
 * may read from a stream, and one write to it: of two, one may wait for ever. No object may be freed while another
 * thread uses it, and none is of use in a child after fork(). Where an object is to be, NULL gives HEADEND_WRONG; a
 * function that returns an object gives NULL, and one that returns nothing does nothing. */

#ifndef HEADEND_SOCKET_H
#define HEADEND_SOCKET_H

#include <stddef.h>
#include <stdint.h>

// The time was up; with a timeout of 0, there is nothing now.
#define HEADEND_TIMED_OUT -1

// The connection, the stream or the endpoint has ended.
#define HEADEND_ENDED -2

// The peer has reset the stream: what was read is not the whole.
#define HEADEND_RESET -3

// The peer reads no more of the stream.
#define HEADEND_STOPPED -4

// An argument is wrong, or the system refused something.
#define HEADEND_WRONG -5

// Bytes of a public key's text with the zero behind it.
#define HEADEND_PUBLIC_KEY_SIZE 45

// The descriptor of reads, for headend_stream_fd.
#define HEADEND_READ 0

// The descriptor of writes.
#define HEADEND_WRITE 1

// A connection with a peer that is known by its key.
typedef struct headend_connection headend_connection;

// A UDP socket with connections.
typedef struct headend_endpoint headend_endpoint;

// A private key, and with it the public one.
typedef struct headend_key headend_key;

// Ordered bytes both ways.
typedef struct headend_stream headend_stream;

// Counts of a connection so far, and what it is at.
typedef struct {
  // The smoothed round trip; 0 before there is one.
  uint64_t rtt_ns;
  // The window of what may be under way, and what is.
  uint64_t window_bytes;
  // Bytes under way.
  uint64_t in_flight_bytes;
  // Numbered datagrams that left.
  uint64_t sent;
  // Those that were acknowledged.
  uint64_t delivered;
  // Those that were lost.
  uint64_t lost;
  // Streams that have not ended.
  uint64_t streams;
} headend_snapshot;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The words for this thread's last call that failed. They stay until its next one that does.
const char *headend_error(void);

// The peer's code in this thread's last call that failed with HEADEND_RESET, HEADEND_STOPPED or HEADEND_ENDED; 0 if it gave none.
uint64_t headend_error_code(void);

// Makes a new key. Free it with headend_key_free.
headend_key *headend_key_generate(void);

// Reads a private key from a file that only its owner may read, as `headend tunnel keygen` writes it. NULL if that fails.
headend_key *headend_key_load(const char *path);

// Writes a private key to a new file that only its owner may read.
int headend_key_save(const headend_key *key, const char *path);

// Writes the public key that belongs to a private one: HEADEND_PUBLIC_KEY_SIZE bytes, the last of them zero. An empty text if the
// private one is NULL.
void headend_key_public(const headend_key *key,
                        char *public_key);

// Frees a key; endpoints that were made with it go on. NULL is none.
void headend_key_free(headend_key *key);

// Opens an endpoint at "ADDRESS:PORT" to which the owners of these public keys may connect. NULL if that fails.
headend_endpoint *headend_listen(const char *address,
                                 const headend_key *key,
                                 const char *const *clients,
                                 size_t clients_count);

// Opens an endpoint that connects, and to which nobody can connect. NULL if that fails.
headend_endpoint *headend_client(const headend_key *key);

// Returns the UDP port at which an endpoint listens; 0 for NULL.
uint16_t headend_port(const headend_endpoint *endpoint);

// Closes an endpoint and all its connections, tells their peers so, and frees it. Its connections and streams remain
// to be freed. NULL is none. It does not end a headend_accept of another thread: no thread may wait there any more.
void headend_endpoint_close(headend_endpoint *endpoint);

// Waits for the next connection of a client. NULL if the time is up, or if the endpoint can do nothing any more. A program that is to
// close the endpoint one day waits with a timeout here, again and again, and not with -1.
headend_connection *headend_accept(const headend_endpoint *endpoint,
                                   int timeout_ms);

// Connects to the owner of the public key `peer` at "HOST:PORT". NULL if that fails, or if the time is up; by itself it gives
// up after 12 s. The look-up of a host's name is the system's, and takes its own time before the timeout begins; an address needs none.
headend_connection *headend_connect(const headend_endpoint *endpoint,
                                    const char *address,
                                    const char *peer,
                                    int timeout_ms);

// Writes the peer's public key: HEADEND_PUBLIC_KEY_SIZE bytes, the last of them zero. HEADEND_ENDED once the connection has.
int headend_connection_peer(const headend_connection *connection,
                            char *public_key);

// Writes what a connection is at. HEADEND_ENDED once the connection has.
int headend_connection_snapshot(const headend_connection *connection, headend_snapshot *to);

// Closes a connection with a code and words for the peer, or NULL, and frees it. What has not come by now does not come. Its
// streams remain to be freed. NULL is no connection. A code above 2^62 - 1 counts as that.
void headend_connection_close(headend_connection *connection,
                              uint64_t code,
                              const char *reason);

// Opens a stream, as soon as the peer allows another. The peer hears of it with the first byte. NULL if that fails, or if the
// time is up.
headend_stream *headend_open(const headend_connection *connection,
                             int timeout_ms);

// Waits for the next stream that the peer opens. NULL if the connection ends, or if the time is up.
headend_stream *headend_accept_stream(const headend_connection *connection, int timeout_ms);

// Reads at most `size` bytes, as soon as there are any. 0 is the end of what the peer writes; less is an error.
ptrdiff_t headend_read(const headend_stream *stream, uint8_t *to, size_t size, int timeout_ms);

// Writes, and waits while the peer reads more slowly. Returns how many bytes were taken: all, unless the time was up after some.
// Less than 0 is an error.
ptrdiff_t headend_write(const headend_stream *stream,
                        const uint8_t *from,
                        size_t size,
                        int timeout_ms);

// Ends what is written. The peer reads what was, and then the end. Reading goes on.
void headend_shutdown(const headend_stream *stream);

// Waits, after headend_shutdown, until all that was written has come. 0, or an error.
int headend_wait_sent(const headend_stream *stream, int timeout_ms);

// Ends what is written at once: the peer's reads fail with this code, and what was on its way is lost. A write of another thread that
// waits fails with HEADEND_ENDED. A code above 2^62 - 1 counts as that.
void headend_reset(const headend_stream *stream,
                   uint64_t code);

// Reads no more: the peer's writes fail with this code. One above 2^62 - 1 counts as that.
void headend_stop(const headend_stream *stream, uint64_t code);

// Returns a descriptor for poll or epoll: after a read (HEADEND_READ) or a write (HEADEND_WRITE) with a timeout of 0 that came back
// with HEADEND_TIMED_OUT, or a write that took a part, it can be read from as soon as another try is worth it. Ask for it before
// the first such call; do not read from it, and do not close it.
int headend_stream_fd(const headend_stream *stream,
                      int way);

// Frees a stream. What was not ended is reset, so that nobody takes a part of it for the whole: headend_shutdown and
// headend_wait_sent come before. NULL is none.
void headend_stream_free(headend_stream *stream);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HEADEND_SOCKET_H */
