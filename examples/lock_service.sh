#!/bin/sh
# Runs a command under a lock of examples/lock_service.ts, with nothing but curl:
#
#   LOCK_URL=http://127.0.0.1:8000 LOCK_TOKEN='a long secret' \
#     examples/lock_service.sh nightly-backup ./backup.sh
#
# The command gets the fencing token in FENCING_TOKEN: whatever it writes to should refuse a smaller
# one. It is stopped when its lease is lost. Ends with 75 if somebody else has the lock for too long.
# LOCK_TTL_MS is 15000 unless set: with less, a server that falls silent may be noticed too late.
set -eu
: "${LOCK_URL:?}" "${LOCK_TOKEN:?}"
ttl_ms=${LOCK_TTL_MS:-15000} wait_ms=${LOCK_WAIT_MS:-5000}
key=$1 # percent-encode what is not A-Z a-z 0-9 . _ ~ -
shift
id=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') # a new one for each run
lock=$LOCK_URL/lock/$key/$id
command=''
exec 3<&0

# ask METHOD [BODY] [SECONDS]: prints the body, and the status in a line of its own
ask() {
  curl -sS -m "${3:-3}" -X "$1" "$lock" -d "${2:-}" -w '\n%{http_code}\n' \
    -H "Authorization: Bearer $LOCK_TOKEN" -H 'Content-Type: application/json' || echo 000
}
status() { printf '%s\n' "$1" | tail -n 1; }
now_s() { date +%s; }

# A release that is not answered costs the others a TTL, nothing else.
finish() {
  trap - EXIT
  if [ -n "$command" ]; then # not before it has ended
    kill "$command" 2>/dev/null || true
    wait "$command" || true
  fi
  ask DELETE >/dev/null
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

answer=$(ask PUT "{\"ttlMs\":$ttl_ms,\"waitMs\":$wait_ms}" $((wait_ms / 1000 + 10)))
case $(status "$answer") in
  200) ;;
  409) echo "somebody else has the lock: $answer" >&2; exit 75 ;;
  *) echo "no lock: $answer" >&2; exit 69 ;;
esac

# The wait took its time: renew once, and count the TTL from before that request.
asked_s=$(now_s)
answer=$(ask PATCH "{\"ttlMs\":$ttl_ms}")
[ "$(status "$answer")" = 200 ] || { echo "lost the lock: $answer" >&2; exit 70; }
FENCING_TOKEN=$(printf '%s\n' "$answer" | sed -n 's/.*"fencingToken":"\([0-9]*\)".*/\1/p')
export FENCING_TOKEN
"$@" <&3 & # as a job in the background it would read nothing else
command=$!

# Renews at a third of the TTL; 404 is the end, and so is silence of two thirds.
last_s=$asked_s
while kill -0 "$command" 2>/dev/null; do
  sleep "${LOCK_RENEW_S:-1}"
  asked_s=$(now_s)
  [ $((3 * 1000 * (asked_s - last_s))) -ge "$ttl_ms" ] || continue
  answer=$(ask PATCH "{\"ttlMs\":$ttl_ms}")
  case $(status "$answer") in
    200) last_s=$asked_s; continue ;;
    404) ;;
    *) [ $((3 * 1000 * ($(now_s) - last_s))) -ge $((2 * ttl_ms)) ] || continue ;;
  esac
  echo "lost the lock: the command is stopped" >&2
  exit 70
done
code=0
wait "$command" || code=$?
command=''
exit "$code"
