/**
 * Syncs that are shared: whoever asks while one is under way is served, with all others who ask meanwhile, by one that begins when it has
 * ended. Each call resolves after a sync that began after the call, so it promises what a sync of its own would. A failure is told to all
 * who waited for that sync.
 */
export function sharedSync(sync: (path: string) => Promise<void>): (path: string) => Promise<void> {
  const flights = new Map<string, { now: Promise<void>; next?: Promise<void> }>();

  function begin(path: string): Promise<void> {
    const flight = { now: sync(path) };
    flights.set(path, flight);
    const ended = () => void (flights.get(path) === flight && flights.delete(path));
    flight.now.then(ended, ended);
    return flight.now;
  }

  return (path) => {
    const flight = flights.get(path);
    if (!flight) return begin(path);
    flight.next ??= flight.now.then(
      () => begin(path),
      () => begin(path),
    );
    return flight.next;
  };
}
