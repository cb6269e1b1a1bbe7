/**
 * The URLs of `openLock()`: what their parts mean, and that an error names the part and shows no secret.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { openLock } from "../../open/mod.ts";
import { parseLockUrl } from "../../open/lock_url.ts";

const SECRET = "hunter2";

Deno.test("lock URL: its parts", () => {
  assertEquals(parseLockUrl("REDIS://bil%40ling:a:b%2Fc@[::1]:1,h2/0?ttlMs=5&label=a%20b+c&x="), {
    scheme: "redis",
    user: "bil@ling",
    password: "a:b/c",
    hosts: [{ host: "::1", port: 1 }, { host: "h2", port: undefined }],
    path: "/0",
    query: new Map([["ttlMs", "5"], ["label", "a b+c"], ["x", ""]]),
  });
  const none = { user: undefined, password: undefined, hosts: [], path: "", query: new Map() };
  assertEquals(parseLockUrl("memory:"), { ...none, scheme: "memory" });
  assertEquals(parseLockUrl("file:///a%20b"), { ...none, scheme: "file", path: "/a%20b" });
  assertEquals(parseLockUrl("redis://:secret@h").password, "secret");
  assertEquals(parseLockUrl("redis://a@b:c@h"), {
    ...none,
    scheme: "redis",
    user: "a@b",
    password: "c",
    hosts: [{ host: "h", port: undefined }],
  });
});

/** Malformed URLs, and what the error must say. */
const MALFORMED: readonly (readonly [url: string, says: RegExp])[] = [
  ["", /begin with a scheme/],
  [SECRET, /begin with a scheme/],
  [`//user:${SECRET}@host`, /begin with a scheme/],
  [`1redis://:${SECRET}@host`, /begin with a scheme/],
  [`http://:${SECRET}@host`, /scheme must be one of redis, .*memory/],
  [`toString://:${SECRET}@host`, /scheme must be one of/],
  [`redis+proxy://:${SECRET}@host`, /scheme must be one of/],
  [`redis://:${SECRET} @host`, /white space/],
  [`redis://:${SECRET}@host\n`, /white space/],
  [`redis://:${SECRET}#1@host`, /'#'/],
  [`redis://user:${SECRET}/1@host`, /%2F/],
  [`zookeeper://u:p@${SECRET}/1@host:1`, /%2F/],
  [`redis://:${SECRET}%@host`, /the password has a '%'/],
  [`redis://${SECRET}%zz:x@host`, /the user has a '%'/],
  [`redis://user:${SECRET}@`, /must name a host/],
  ["redis:", /must name a host/],
  ["redis:/0", /must name a host/],
  [`redis://:${SECRET}@host:0`, /port of host 1/],
  [`redis://host:${SECRET}`, /port of host 1/],
  [`redis+cluster://:${SECRET}@h1:7000,h2:70000`, /port of host 2/],
  [`redis+cluster://:${SECRET}@h1,,h3`, /host 2 is empty/],
  [`redis://:${SECRET}@::1`, /host 1 must be a name/],
  [`redis://:${SECRET}@[::1`, /host 1 must be a name/],
  [`redis://:${SECRET}@h1,h2`, /one host/],
  [`redis://:${SECRET}@host/zero`, /the path must end with the number/],
  [`redis://:${SECRET}@host/0/1`, /the path must end with the number/],
  [`redis+cluster://:${SECRET}@host/1`, /the path must be empty/],
  [`redis+sentinel://:${SECRET}@host`, /the name of the primary/],
  [`redis+sentinel://:${SECRET}@host/main/x`, /the path must end with the number/],
  [`redis://:${SECRET}@host?${SECRET}`, /name=value/],
  [`redis://user:42?${SECRET}=@host`, /'@' behind a '\/' or a '\?': write %2F, %3F/],
  [`redis://host?label=me@${SECRET}`, /'@' behind a '\/' or a '\?'/],
  [`redis://host?password=${SECRET}`, /'password': redis: has no such option/],
  [`redis://:${SECRET}@host?ttlms=5`, /did you mean 'ttlMs'/],
  [`redis://:${SECRET}@host?ttlMs=5&ttlMs=6`, /'ttlMs' twice/],
  [`redis://:${SECRET}@host?ttlMs=${SECRET}`, /'ttlMs': it must be a number of ms/],
  [`redis://:${SECRET}@host?ttlMs=1`, /'ttlMs': .* from 10/],
  [`redis://:${SECRET}@host?handoff=yes`, /'handoff': it must be a boolean/],
  [`redis://:${SECRET}@host?onWarning=x`, /'onWarning': it must be a function/],
  ["memory:?onWarning=toString", /'onWarning': it must be a function/],
  [`redis://:${SECRET}@host?client=jedis`, /'client': it must be "redis" or "ioredis"/],
  [`redis://:${SECRET}@host?label=%`, /'label' has a '%'/],
  [`redis://:${SECRET}@host?sentinelPassword=${SECRET}`, /without sentinels/],
  [`redis://:${SECRET}@host?caFile=/dev/null`, /write rediss/],
  [`zookeeper://:${SECRET}@host`, /both a user and a password/],
  [`zookeeper://user@host`, /both a user and a password/],
  ["zookeeper:///app", /must name a host/],
  [`zookeeper://u:${SECRET}@host/a//b`, /chroot/],
  [`zookeeper://u:${SECRET}@host?tls=false&caFile=/dev/null`, /'tls'/],
  ["zookeeper://host?auth=x", /no such option/],
  [`file://${SECRET}/dir`, /no host/],
  ["file:dir", /absolute/],
  ["file:///dir?dir=/other", /'dir': file: has no such option/],
  ["file:///dir?sharedDir=1", /'sharedDir': it must be a boolean/],
  ["memory:/dir", /neither hosts nor a path/],
  ["memory://host", /neither hosts nor a path/],
];

for (const [url, says] of MALFORMED) {
  Deno.test(`lock URL: ${url.replaceAll(SECRET, "***").replace("\n", "\\n")} is refused`, async () => {
    const error = await assertRejects(() => openLock(url)) as Error;
    assert(error instanceof TypeError || error instanceof RangeError, `${error}`);
    for (let each: unknown = error; each instanceof Error; each = each.cause) {
      assert(!`${each.stack}`.includes(SECRET), "the error shows the secret");
    }
    assert(says.test(error.message), error.message);
  });
}

Deno.test("lock URL: an option stands in the URL or in the options", async () => {
  const error = await assertRejects(() => openLock("memory:?label=a", { label: "b" }), TypeError);
  assertEquals(error.message, "Cannot use 'label': it stands in the URL and in the options");
  await assertRejects(() => openLock("memory:", { lable: "b" } as never), TypeError, "'label'");
  await assertRejects(() => openLock(new URL("memory:") as never), TypeError, "must be a string");
});
