// Puts a link in the place of a folder and takes it back, over and over: the folder `d` and the link `link` of where it is started.
import { renameSync } from 'node:fs';

let lost = 0;

/** A tool may have made a folder where one is wanted; it is moved out of the way. */
function move(from, to) {
  try {
    renameSync(from, to);
  } catch {
    renameSync(to, `lost-${++lost}`);
    move(from, to);
  }
}

process.stdout.write('flipping\n');
for (;;) {
  move('d', 'aside');
  move('link', 'd');
  move('d', 'link');
  move('aside', 'd');
}
