// Written by `npm run docs`: changes with any file the fold is made of. A snapshot of another version is not believed.
export const FOLD_VERSION = 'ed12eb7826f7e0c3';
