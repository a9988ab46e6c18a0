import { openSessionFolder, sessionTokens } from '../../src/store/index.ts';

// Processes everything in an inbox as a given user, and prints the outcome of each file.
const [folder = '', user] = process.argv.slice(2);
if (user !== undefined) {
  process.setgroups?.([]);
  process.setgid?.(Number(user));
  process.setuid?.(Number(user));
}
const clock = { ms: 0, wall: Date.now() };
const store = openSessionFolder(folder, sessionTokens().take('demo'), {
  now: () => new Date(clock.wall),
  elapsed: () => clock.ms,
});
const ends: Array<{ name: string; end: string }> = [];
for (let [seq, quiet] = [1, 0]; quiet < 3; ) {
  const { drops } = await store.inbox.listReady();
  quiet = drops.length === 0 ? quiet + 1 : 0;
  clock.ms += 11_000;
  clock.wall += 11_000;
  for (const drop of drops) {
    if (drop.ok) await store.inbox.moveToDone(drop, seq++, []);
    else await store.inbox.reject(drop, drop.why);
    ends.push({ name: drop.name, end: drop.ok ? `message: ${drop.message.text}` : drop.why });
  }
}
console.log(JSON.stringify(ends));
await store.close();
