import { assertEquals, assertThrows } from "@std/assert";
import { parseConnectString } from "../../../zookeeper/connection/servers.ts";

Deno.test("parseConnectString() returns the servers and the chroot", () => {
  assertEquals(parseConnectString("a"), { servers: [{ host: "a", port: 2181 }], chroot: "" });
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
