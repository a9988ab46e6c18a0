import { watchdog } from './watchdog.ts';

/** A story that goes in circles: seed 17 never lets anything else have a turn. */
watchdog(500).at(17);
for (;;) await null;
