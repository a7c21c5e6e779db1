from slipstream.cli.app import main

main()
