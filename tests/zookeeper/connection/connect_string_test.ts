import { assertEquals, assertThrows } from "@std/assert";
import { parseConnectString } from "../../../zookeeper/connection/servers.ts";

Deno.test("parseConnectString() returns the servers and the chroot", () => {
  assertEquals(parseConnectString("a"), { servers: [{ host: "a", port: 2181 }], chroot: "" });
  assertEquals(parseConnectString("a:65535").servers, [{ host: "a", port: 65_535 }]);
  assertEquals(parseConnectString("a:1, b:2/x/y"), {
    servers: [{ host: "a", port: 1 }, { host: "b", port: 2 }],
    chroot: "/x/y",
  });
  assertEquals(parseConnectString("[::1]:2182,[fe80::1]/"), {
    servers: [{ host: "::1", port: 2182 }, { host: "fe80::1", port: 2181 }],
    chroot: "",
  });
});

Deno.test("parseConnectString() throws when the connect string is bad", () => {
  for (const bad of [undefined, null, 42, {}]) {
    assertThrows(() => parseConnectString(bad), TypeError);
  }
  for (
    const bad of ["", ",", "a,,b", "a:0", "a:65536", "a:x", "::1:2181", "/x", "a//x", "a/x/../y"]
  ) {
    assertThrows(() => parseConnectString(bad), RangeError);
  }
});

Deno.test("parseConnectString() refuses a scheme and credentials, and does not show them", () => {
  const must = 'Cannot use the connect string: it must be like "host1:2181,host2:2181/chroot", ';
  const cases: [text: string, rest: string][] = [
    ["zookeeper://h:2181", 'without a scheme, but it is one with "zookeeper://"'],
    ["zk://h:2181,i:2181/app", 'without a scheme, but it is one with "zk://"'],
    ["redis://user:s3cret@h:6379", 'without a scheme, but it is one with "redis://"'],
    ["user:s3cret@h:2181", "without user and password, which are 'auth', but it is one with an @"],
    ["s3cret@h:2181", "without user and password, which are 'auth', but it is one with an @"],
  ];
  for (const [text, rest] of cases) {
    assertEquals(assertThrows(() => parseConnectString(text), RangeError).message, must + rest);
  }
});
