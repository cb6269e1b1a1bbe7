// Loaded before the tests: maps the host names of their Docker network to the servers of this run.
const dns = require("node:dns");
const net = require("node:net");

const [instance, cluster] = JSON.parse(process.env.REDLOCK_TESTS_PORTS);
/** ioredis resolves the name of a cluster's node before it connects, so that name needs an address. */
const CLUSTER_ADDRESS = "127.0.41.2";
const PORTS = { "redis-single-instance": instance, [CLUSTER_ADDRESS]: cluster };

const { lookup } = dns;
dns.lookup = (name, ...args) => {
  if (name !== "redis-single-cluster-1") return lookup(name, ...args);
  args.at(-1)(null, CLUSTER_ADDRESS, 4);
};
for (const method of ["connect", "createConnection"]) {
  const connect = net[method];
  net[method] = (options, ...args) => {
    const port = PORTS[options?.host];
    return connect(port ? { ...options, host: "127.0.0.1", port } : options, ...args);
  };
}
