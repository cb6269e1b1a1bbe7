#!/bin/sh
# Runs a command under a lock of examples/lock_service.ts, with nothing but curl (7.55 or later):
#
#   LOCK_URL=http://127.0.0.1:8000 LOCK_TOKEN='a long secret' \
#     examples/lock_service.sh nightly-backup ./backup.sh
#
# The command finds the fencing token in FENCING_TOKEN: the systems it writes to should refuse smaller
# tokens. The command is stopped when the lease is lost, and the script exits with 70. It exits with 75 if
# somebody else still holds the lock after LOCK_WAIT_MS (5000 ms by default), or if the service asks for
# fewer requests. LOCK_TTL_MS is 15000 by default: with less, a server that stops answering may be noticed
# only after the lease has expired.
#
# The lock is held until all processes of the command have ended, except those in a process group of their
# own, as timeout(1) makes one. Without setsid(1), as on macOS, that is only the first process: let a script
# end with `exec program`. In a container run it under an init that reaps orphans (docker run --init).
set -eu
: "${LOCK_URL:?}" "${LOCK_TOKEN:?}"
ttl_ms=${LOCK_TTL_MS:-15000} wait_ms=${LOCK_WAIT_MS:-5000}
key=$1 # percent-encode all characters except A-Z a-z 0-9 . _ ~ -
shift
id=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') # a new id for each run
lock=$LOCK_URL/lock/$key/$id
command=''
exec 3<&0

# ask METHOD [BODY] [SECONDS]: prints the body, then the status on a line of its own (000: no answer). The
# token is not among the arguments, which all users of the machine can read.
ask() {
  printf 'Authorization: Bearer %s\n' "$LOCK_TOKEN" |
    curl -sS -m "${3:-3}" -X "$1" "$lock" -d "${2:-}" -w '\n%{http_code}\n' \
      -H @- -H 'Content-Type: application/json' || echo 000
}
status() { printf '%s\n' "$1" | tail -n 1; }
# A clock that nobody sets, where the system has one (Linux): a wall clock that is set back stops the renewals.
now_s() { cut -d . -f 1 /proc/uptime 2>/dev/null || date +%s; }

alive() { kill -0 "$command" 2>/dev/null || kill -0 -"$command" 2>/dev/null; }

# If the release gets no answer, the lock becomes free when its TTL is over.
finish() {
  trap - EXIT
  trap '' HUP INT TERM
  if [ -n "$command" ]; then # keep the lock while the command stops, however long that takes
    kill -TERM -"$command" 2>/dev/null || kill "$command" 2>/dev/null || true
    while alive; do
      sleep "${LOCK_RENEW_S:-1}"
      ask PATCH "{\"ttlMs\":$ttl_ms}" >/dev/null
    done
    wait "$command" || true
  fi
  ask DELETE >/dev/null
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
trap '' TSTP # it would stop the renewals, but not the command

answer=$(ask PUT "{\"ttlMs\":$ttl_ms,\"waitMs\":$wait_ms}" $((wait_ms / 1000 + 10)))
case $(status "$answer") in
  200) ;;
  409) echo "cannot acquire the lock '$key': somebody else holds it: $answer" >&2; exit 75 ;;
  429) echo "cannot acquire the lock '$key': too many requests: $answer" >&2; exit 75 ;;
  *) echo "cannot acquire the lock '$key' from $LOCK_URL: $answer" >&2; exit 69 ;;
esac

# After the wait, the lease may be nearly over: renew it, and count the TTL from before this request.
asked_s=$(now_s)
answer=$(ask PATCH "{\"ttlMs\":$ttl_ms}")
[ "$(status "$answer")" = 200 ] || { echo "lost the lock '$key': $answer" >&2; exit 70; }
FENCING_TOKEN=$(printf '%s\n' "$answer" | sed -n 's/.*"fencingToken":"\([0-9]*\)".*/\1/p')
export FENCING_TOKEN
# In a process group of its own, so that what it starts is stopped, too. A background job would otherwise read
# nothing from the standard input.
$(command -v setsid || true) "$@" <&3 &
command=$!

# Renews after a third of the TTL. The lease counts as lost after a 404, or two thirds of the TTL without an
# answer.
last_s=$asked_s
while alive; do
  sleep "${LOCK_RENEW_S:-1}"
  asked_s=$(now_s)
  [ $((3 * 1000 * (asked_s - last_s))) -ge "$ttl_ms" ] || continue
  answer=$(ask PATCH "{\"ttlMs\":$ttl_ms}")
  case $(status "$answer") in
    200) last_s=$asked_s; continue ;;
    404) ;;
    *) [ $((3 * 1000 * ($(now_s) - last_s))) -ge $((2 * ttl_ms)) ] || continue ;;
  esac
  echo "lost the lock '$key': the command is stopped: $answer" >&2
  exit 70
done
code=0
wait "$command" || code=$?
trap - EXIT
answer=$(ask DELETE)
[ "$(status "$answer")" != 404 ] || { echo "lost the lock '$key' while the command ran: $answer" >&2; code=70; }
exit "$code"
