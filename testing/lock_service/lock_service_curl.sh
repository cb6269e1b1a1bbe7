#!/bin/sh
# Checks the answers of a lock service to curl. Usage: lock_service_curl.sh URL
# Prints a heading for each group of checks. Exits with 1 at the first check that fails.
set -eu
url=$1
checks=0
alice='Authorization: Bearer alice'
me=$alice

# call METHOD PATH [options of curl]: puts the reply (headers and body) into $reply
call() {
  asked=$*
  method=$1 path=$2
  shift 2
  [ "$method" = HEAD ] && set -- -I "$@"
  reply=$(curl -sS -i -m 30 -X "$method" -H "$me" "$@" "$url$path" | tr -d '\r')
}

# expect STATUS [TEXT …]: fails unless $reply has this status and contains these texts
expect() {
  status=${reply#HTTP/1.1 }
  status=${status%%[!0-9]*}
  [ "$status" = "$1" ] || fail "status $1"
  shift
  for pattern in "$@"; do
    case $reply in *"$pattern"*) ;; *) fail "$pattern" ;; esac
  done
  checks=$((checks + 1))
}

fail() {
  printf 'FAILED: %s\nexpected: %s\ngot: %s\n' "$(printf %.200s "$asked")" "$1" "$reply"
  exit 1
}

# field NAME: prints a number of the body
field() {
  value=${reply#*\""$1"\":}
  value=${value#\"}
  echo "${value%%[!0-9]*}"
}

# between LOW VALUE HIGH: fails unless VALUE is in this range
between() {
  { [ "$2" -ge "$1" ] && [ "$2" -le "$3" ]; } || fail "a number from $1 to $3 (is $2)"
}

# problem STATUS KIND [TEXT …]: like expect, for problem details
problem() {
  status_expected=$1 kind=$2
  shift 2
  expect "$status_expected" 'content-type: application/problem+json' 'cache-control: no-store' \
    "\"type\":\"urn:holdfast:problem:$kind\"" "\"status\":$status_expected" "$@"
}

repeat() { printf "%$2s" '' | sed "s/ /$1/g"; }

echo '# acquire, renew, release'
call GET /lock/orders
expect 200 'content-type: application/json' 'cache-control: no-store' \
  '{"key":"orders","held":false,"waiterCount":0}'
call PUT /lock/orders/one -d '{"ttlMs":20000}'
expect 200 '"key":"orders"' '"fencingToken":"' 'cache-control: no-store'
first=$(field fencingToken)
between 1000 "$(field remainingMs)" 20000
call PUT /lock/orders/one -d '{"ttlMs":20000}'
expect 200
[ "$(field fencingToken)" -gt "$first" ] || fail "a token greater than $first"
first=$(field fencingToken) # a repeated PUT gets the lease again
call PUT /lock/orders/two
problem 409 busy '"title":"Busy"' 'retry-after: '
between 1000 "$(field remainingMs)" 20000
between 1000 "$(field retryAfterMs)" 30000 # with up to half of it on top
call PUT /lock/orders/two -d '{"waitMs":50}'
problem 409 busy '"remainingMs":'
call GET /lock/orders
expect 200 '"held":true' "\"fencingToken\":\"$first\"" '"waiterCount":0'
between 1000 "$(field remainingMs)" 20000
call HEAD /lock/orders
expect 200
call PATCH /lock/orders/one -d '{"ttlMs":60000}'
expect 200
[ "$(field fencingToken)" -gt "$first" ] || fail "a token greater than $first"
between 21000 "$(field remainingMs)" 60000
call PATCH /lock/orders/one -d '{"ttlMs":1000}' # never shortens
expect 200
between 21000 "$(field remainingMs)" 60000
call PATCH /lock/orders/one # 30 s by default
expect 200
call PATCH /lock/orders/two
problem 404 not-held '"detail":"The lock is not held under this id: '
call DELETE /lock/orders/two
problem 404 not-held
me='Authorization: Bearer bob'
call DELETE /lock/orders/one
problem 404 not-held
call PATCH /lock/orders/one
problem 404 not-held
call PUT /lock/orders/one
problem 409 busy
me=$alice
call GET /lock/orders
expect 200 '"held":true'
call DELETE /lock/orders/one
expect 200 '{"key":"orders","released":true}'
call DELETE /lock/orders/one
problem 404 not-held
call PATCH /lock/orders/one
problem 404 not-held
call PUT /lock/orders/two -d '{"ttlMs":20000,"waitMs":1000}'
expect 200
second=$(field fencingToken)
[ "$second" -gt "$first" ] || fail "a token greater than $first"
call DELETE /lock/orders/two
expect 200

echo '# TTLs'
call PUT /lock/short/one -d '{"ttlMs":600}'
expect 200
between 1 "$(field remainingMs)" 600
call PUT /lock/short/two -d '{"ttlMs":20000,"waitMs":30000}'
expect 200 # the first lease has expired
call PATCH /lock/short/one
problem 404 not-held
call DELETE /lock/short/two
expect 200
call PUT /lock/default/one
expect 200
between 1000 "$(field remainingMs)" 30000
call DELETE /lock/default/one
expect 200

echo '# authorization'
me='Authorization:'
call PUT /lock/k/i
problem 401 forbidden 'A bearer token is needed' 'www-authenticate: Bearer'
me='Authorization: Bearer nobody'
for method in PUT PATCH DELETE; do
  call $method /lock/k/i
  problem 403 forbidden
done
call GET /lock/k
problem 403 forbidden
me=$alice

echo '# keys'
long=$(repeat k 1000)
slashes="a%2Fb%2F$(repeat %2F 996)" # 1,000 characters, 3,000 in the URL
cjk=$(repeat %E4%BD%A0 1000) # 9,000 in the URL
for key in "$long" "$slashes" "$cjk" '%F0%9F%94%92%20%25%3F%23%00' a:b 'a+b' ; do
  call PUT "/lock/$key/one"
  expect 200 '"fencingToken":'
  call PUT "/lock/$key/two"
  problem 409 busy
  call PATCH "/lock/$key/one"
  expect 200
  call GET "/lock/$key"
  expect 200 '"held":true'
  call DELETE "/lock/$key/one"
  expect 200
done
call PUT '/lock/a%2Fb/one'
expect 200 '"key":"a/b"'
call PUT '/lock/a/b'
expect 200 '"key":"a"' # another lock
call DELETE '/lock/a%2Fb/one'
expect 200
call DELETE '/lock/a/b'
expect 200
call PUT "/lock/k$long/one"
problem 400 bad-request 'The key must have 1 to 1000 characters: it has 1001'
call GET "/lock/k$long"
problem 400 bad-request 'it has 1001'
call PUT /lock//one
problem 400 bad-request 'it has 0'
call GET /lock/
problem 400 bad-request 'it has 0'
call GET /lock/%zz
expect 400 '/lock/%zz'
call GET /lock/%ff
expect 400

echo '# ids'
call PUT /lock/k/
problem 400 bad-request 'The id must be 1 to 128 characters'
for id in a:b a%20b a%2Fb %C3%A4 a%00 a%0A 'a;b' 'a,b' '..' . "$(repeat i 129)"; do
  for method in PUT PATCH DELETE; do
    call $method "/lock/k/$id" --path-as-is
    problem 400 bad-request 'The id must be'
  done
done
id=A.z_0~-$(repeat i 121)
call PUT "/lock/k/$id?x=y"
expect 200
call DELETE "/lock/k/$id/"
expect 200

echo '# bodies'
for ttl in -1 0 9 1.5 '"1000"' null true '[1000]' 300001 1e300 9007199254740993; do
  for method in PUT PATCH; do
    call $method /lock/k/i -d "{\"ttlMs\":$ttl}"
    problem 400 bad-request "The field 'ttlMs' must be a whole number of ms from 10 to 300000"
  done
done
for wait in -1 0.5 '"1"' null 30001; do
  call PUT /lock/k/i -d "{\"waitMs\":$wait}"
  problem 400 bad-request "The field 'waitMs' must be a whole number of ms from 0 to 30000"
done
for body in '{' 'ttlMs=1000' '{"ttlMs":1000}}' "{'ttlMs':1}" ' '; do
  call PUT /lock/k/i -d "$body"
  problem 400 bad-request 'The body is not valid JSON'
done
for body in '[]' '[{"ttlMs":1000}]' null 1000 '"ttlMs"' true; do
  call PUT /lock/k/i -d "$body"
  problem 400 bad-request 'The body must be a JSON object'
done
call PUT /lock/k/i -d '{"ttl":1000}'
problem 400 bad-request 'The field \"ttl\" is not known here'
call PUT /lock/k/i -d '{"__proto__":{"ttlMs":1000}}'
problem 400 bad-request 'is not known here'
call PATCH /lock/k/i -d '{"waitMs":1000}'
problem 400 bad-request 'The field \"waitMs\" is not known here'
call DELETE /lock/k/i -d '{"ttlMs":1000}'
problem 400 bad-request 'The field \"ttlMs\" is not known here'
call PUT /lock/k/i -d "{\"ttlMs\":1000$(repeat ' ' 5000)}"
problem 413 bad-request 'too large'
call GET /lock/k
expect 200 '"held":false' # none of these requests has acquired the lock
for type in application/json 'application/json; charset=utf-8' text/plain application/xml ''; do
  call PUT /lock/k/i -H "Content-Type: $type" -d '{"ttlMs":20000}'
  expect 200
  call DELETE /lock/k/i
  expect 200
done

echo '# methods'
call POST /lock/k/i -d '{}'
problem 405 method-not-allowed 'allow: PUT, PATCH, DELETE'
call POST /lock/k
problem 405 method-not-allowed 'allow: GET, HEAD'
for method in PUT PATCH DELETE; do
  call $method /lock/k
  problem 405 method-not-allowed 'allow: GET, HEAD'
done
call GET /lock/k/
expect 200
call GET /lock/k/i
problem 405 method-not-allowed 'allow: PUT, PATCH, DELETE'
call PUT /lock/a/b/c
problem 404 not-found '%2F'
call PUT /
expect 404

echo "$checks checks passed"
