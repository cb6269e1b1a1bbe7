/** Ships an order. No two processes ship it at the same time. */
export async function shipOrder(locks, id, carrier) {
  return await locks.request(`orders:${id}`, { waitMs: 2_000 }, async (lease) => {
    const label = await carrier.print(id, { signal: lease.signal });
    lease.throwIfLost(); // before each side effect
    return await carrier.ship(label, { fence: lease.fencingToken });
  });
}
