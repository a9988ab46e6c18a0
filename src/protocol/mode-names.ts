/** The planning modes by name, apart from their schema: a command line that names them need not load one. */
export const MODES = ['linear', 'plan-act', 'todo', 'dag', 'map-reduce', 'auto'] as const;
