// Written by `npm run docs`: changes with any file the fold is made of. A snapshot of another version is not believed.
export const FOLD_VERSION = 'c06bf64a9ed2b510';
