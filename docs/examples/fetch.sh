# A test of a program behind an emulated line: a server here, and a client behind one more line. Run it with
#
#     headend emulate docs/examples/access.toml -- sh docs/examples/fetch.sh
set -e
folder=$(mktemp -d)
head -c 2000000 /dev/urandom >"$folder/file"
python3 -m http.server 8000 --directory "$folder" >/dev/null 2>&1 &
trap "kill $!; rm -r $folder" EXIT
sleep 1
headend emulate docs/examples/access.toml -- \
    curl -sS --max-time 20 -o /dev/null -w '%{time_total} s\n' http://10.83.1.1:8000/file
